"""The verbs of the command line, one file each; `cli.py` parses and calls them.

run        lines in, lines out
evaluate   scores of one model, or of two
look       what a model looks at: terminal, file or live page
serve      models behind HTTP; serve_worker: the process that answers
bench      how fast a model answers
demo       the embedded example
lines      the lines of standard input, as they arrive
long_lines lines that are too long to be answered in one piece
unknown    unknown tokens in the input
progress_bar  how many inputs are done
failures   what goes wrong, as one line and an exit code
"""
