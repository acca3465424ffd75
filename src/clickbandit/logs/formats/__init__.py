"""Log formats, one file each; `base.py` says what a format is. Packages of others bring more by entry points."""
