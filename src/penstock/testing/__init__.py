"""The public testing kit: a clock the test moves, and stand-ins for the kernel's ports that record what happens."""
