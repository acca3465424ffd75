"""One file for each click model; the file's name, in capitals, is its name in a queries file."""
