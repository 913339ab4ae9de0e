"""The interval benchmark: the arms and experiments of Li 2010 (5.5), the product, and what one would write instead."""
