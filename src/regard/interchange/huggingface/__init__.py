"""Directories of Hugging Face's library: GPT-2, BERT, DistilBERT, RoBERTa, XLNet, Marian, ViT and Swin."""

from regard.interchange.huggingface.architecture import Shape
from regard.interchange.huggingface.directory import ARCHITECTURES, Imported, export_directory, import_directory
from regard.interchange.huggingface.heads import Head

__all__ = ["ARCHITECTURES", "Head", "Imported", "Shape", "export_directory", "import_directory"]
