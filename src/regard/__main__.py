"""`python -m regard`: the command, for `torchrun -m regard train …`."""

from regard.cli import main

main()
