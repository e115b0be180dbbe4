"""Texts in and out of models: what is split, and put together again.

sentences   long texts as whole sentences
"""
