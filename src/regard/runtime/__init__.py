"""Answers without torch: a model converted to CTranslate2, in a process that starts in a fraction of a second.

choose        whether CTranslate2 gives the answers that torch gives, and if not, why
cache         the converted model, kept beside the weights it was made from
measure       how many workers, of how many threads, in which precision
translator    texts in, answers out, in order
"""
