"""Files whose texts are translated and which otherwise come back byte for byte: a reader and writer per format."""
