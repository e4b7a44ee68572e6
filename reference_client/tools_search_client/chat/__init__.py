"""An agent loop for the terminal, in parts that can be taken one by one.

What does no input and no output of its own:
    loop.py          `Chat`: the turns of one conversation
    asking.py        one answer of the model, asked for again where that may help
    surface.py       `Surface`: what the loop shows, and whom it asks
    permission.py    which tools are called without asking
    model.py         `Model`: one streamed answer at a time, and why there is none
    results.py       how much of a result a model is sent
    completion_parts.py  the chunks of a chat completion, put together

Providers, each by its own SDK, which is imported when it is needed:
    endpoint.py      which provider, model, address and key
    providers.py     adapter and model of an endpoint
    openai_completions.py, openai_responses.py, anthropic_messages.py
    failures.py      what the SDKs raise, as one clear line

The terminal:
    terminal.py      answers on standard output, everything else on standard error
    wrapping.py      text in pieces, broken between words
    lines.py         what is shown of searches, calls and savings
    keyboard.py      what is typed
    interrupts.py    Ctrl-C
    prompt.py        one line after the other, until the user leaves
    slash.py         `/tools` and its like
    program.py       all of it together
"""
