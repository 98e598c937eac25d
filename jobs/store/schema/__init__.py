"""Tables, views and their migrations, and who may read them."""
