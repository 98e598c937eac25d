"""How a store becomes smaller on the disk: ended jobs deleted, free pages given back."""
