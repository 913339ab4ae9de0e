"""From syntax to blocks: names, kinds and scopes are settled here, then passes rewrite, then `explain` shows."""
