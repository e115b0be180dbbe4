"""What is wrong with data, found before a model learns it: `regard check`.

reading      files of pairs, labelled texts or plain text as blocks of cells; wrong bytes, lines and columns
block        many examples at once, with flags that tell which of them a rule has to look at
texts        rules on one text
pairs        rules on a source and its target
corpus       rules that compare examples: duplicates, many targets, leakage, labels
languages    scripts, and languages with the extra `check`
drift        where the lines of two files stop belonging together
report       counts and examples of what was found, for people and as JSON
examine      all rules on one data set, and what is left of it

A rule is a plain function. Adding one is a function and a row of the table in its file.
"""
