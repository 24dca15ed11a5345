"""Problems that several studies share: axes and laws, tokens, transport tests, objectives."""
