"""Directories that Hugging Face's library writes and reads: GPT-2, BERT, DistilBERT, RoBERTa and Marian."""

from regard.interchange.huggingface.directory import ARCHITECTURES, Imported, export_directory, import_directory

__all__ = ["ARCHITECTURES", "Imported", "export_directory", "import_directory"]
