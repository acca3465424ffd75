"""All lists of a small problem with what users do on them: a template that `compilation` specialises."""

from typing import Any

from clickbandit.clicks.cm import click_probability, examination_probability  # model
from clickbandit.kernel import FloatArray, IntArray, entry_point


@entry_point
def tabulate(
    params: Any, n_items: int, first: int, lists: IntArray, clicked: FloatArray, examined: FloatArray
) -> None:
    """Fill the rows with the lists from number `first` on, in lexicographic order, and their probabilities."""
    n_positions = lists.shape[1]
    for row in range(len(lists)):
        number = first + row
        for k in range(n_positions - 1, -1, -1):  # the digits of the number, in a mixed base
            lists[row, k] = number % (n_items - k)
            number //= n_items - k
        for k in range(n_positions - 2, -1, -1):  # a digit is the rank of the item among those not above it
            for below in range(k + 1, n_positions):
                if lists[row, below] >= lists[row, k]:
                    lists[row, below] += 1
        click_probability(params, lists[row], clicked[row])
        examination_probability(params, lists[row], examined[row])
