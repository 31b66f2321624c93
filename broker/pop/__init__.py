"""What a broker keeps of messages that were popped: given to a consumer, and invisible to the rest
of its group until they are acknowledged, or their time is up.
"""
