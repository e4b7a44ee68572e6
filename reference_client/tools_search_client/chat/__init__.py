"""An agent loop for the terminal, with models of OpenAI, Anthropic, and compatible services."""
