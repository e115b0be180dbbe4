"""Answers without torch: a model converted to CTranslate2, in a process that starts in a fraction of a second.

offers   whether CTranslate2 gives the answers that torch gives, and if not, why
cache    the converted model, kept beside the weights it was made from
plans    how many workers, of how many threads, in which precision
engine   texts in, answers out, in order
"""
