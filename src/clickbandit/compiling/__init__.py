"""From Python to machine code: what kernels are written with, and where compiled code is kept."""
