"""How the embedded demo pair is made: corpus, training, prompts, cards."""
