"""Damage: searched, mapped, judged, and a log repaired."""
