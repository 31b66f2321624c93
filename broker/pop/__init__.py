"""Popped messages: given to a consumer, and invisible to the rest of its group until they are
acknowledged, or their invisible time is over.
"""
