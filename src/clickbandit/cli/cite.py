"""The command that says how to cite clickbandit; CITATION.cff says the same to machines."""

from clickbandit import __version__
from clickbandit.cli._shared import app

ENTRIES = f"""\
@software{{clickbandit,
  title   = {{clickbandit: learning the best ranked list from clicks}},
  author  = {{{{clickbandit contributors}}}},
  version = {{{__version__}}}
}}

@inproceedings{{zoghi2017online,
  title     = {{Online Learning to Rank in Stochastic Click Models}},
  author    = {{Zoghi, Masrour and Tunys, Tomas and Ghavamzadeh, Mohammad and
               Kveton, Branislav and Szepesvari, Csaba and Wen, Zheng}},
  booktitle = {{Proceedings of the 34th International Conference on Machine Learning}},
  volume    = {{70}},
  pages     = {{4199--4208}},
  year      = {{2017}}
}}"""


@app.command()
def cite() -> None:
    """Print BibTeX entries for clickbandit and for the paper that it implements."""
    print(ENTRIES)
