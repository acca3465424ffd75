"""Running policies against click models: the interaction loop, runs, and the traces they leave."""
