"""Published results, measured again: the studies of papers, their claims, and a page that shows both."""
