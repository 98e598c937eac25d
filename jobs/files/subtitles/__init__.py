"""Subtitles: .srt, .vtt, .ass."""
