"""One file for each algorithm; the file's name, in kebab case, is its name on the command line."""
