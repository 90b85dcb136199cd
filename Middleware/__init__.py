"""Headrace: workflows between chat front ends and model servers."""

__version__ = "0.1.0"
