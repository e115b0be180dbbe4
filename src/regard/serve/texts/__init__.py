"""Texts in and out of models: what is split, and put together again.

sentences    long texts as whole sentences
marked       a text with marks that are not translated, and its translation with the same marks
documents    plain text, HTML and subtitles as texts with marks
translation  documents in another language
languages    languages by their codes, and which of them a text has
"""
