"""Published results, measured again: the experiments of papers, their claims, and a page that shows both."""
