"""What users do on many lists at once: a template that `compiling.specialise` specialises."""

from typing import Any

from clickbandit.click_models.cm import click_probability, examination_probability  # model
from clickbandit.compiling.kernel import FloatArray, IntArray, entry_point


@entry_point
def evaluate(params: Any, lists: IntArray, clicked: FloatArray, examined: FloatArray) -> None:
    """Fill in, for the list in each row, the probabilities that its positions are clicked and examined."""
    for row in range(len(lists)):
        click_probability(params, lists[row], clicked[row])
        examination_probability(params, lists[row], examined[row])
