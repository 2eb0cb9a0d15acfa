"""`split_sentences` finds the sentences of a document, and `count_words` counts their words."""

import pytest

from tests.docs.text import DOCUMENTS, count_words, read, sentences, split_sentences

PAGE = """\
# A heading is no sentence

A paragraph has `two words` and
a second line. (So has this one.) **Bold.** Then: more

    indented code is no sentence. None at all

| who | what |
|---|---|
| a cell | the first. The second |

- An item of a list,
  on two lines.

  A second paragraph of it.

      code in an item

- Another item
      with a line far to the right.

1. A step

       code in a step

   and its end.

```shell
butler-ipam status  # code in a fence
```

<div class="pair" markdown>
not prose
</div>

<!-- a note
to writers -->
- Pages: <a id="a"></a>[First](a.md), <a id="b"></a>[Second page](b.md#b)
- See [First](a.md), [Second](b.md), and mind <b>both</b>.
"""


def test_paragraphs_items_and_cells_have_sentences_and_code_has_none() -> None:
    assert split_sentences(PAGE) == [
        "A paragraph has code and a second line.",
        "(So has this one.)",
        "**Bold.**",
        "Then:",
        "more",
        *("who", "what", "---", "---", "a cell", "the first.", "The second"),
        "- An item of a list, on two lines.",
        "A second paragraph of it.",
        "- Another item with a line far to the right.",
        "1.",
        "A step",
        "and its end.",
        "- Pages:",
        "- See [First], [Second], and mind both.",
    ]


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("A tenant's pool and/or a dual-stack one, 2 of 3.", 10),
        ("- See [First], [Second], and mind both.", 6),
    ],
)
def test_words_joined_by_hyphen_slash_or_apostrophe_are_one(sentence: str, words: int) -> None:
    assert count_words(sentence) == words


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_document_has_sentences(document: str) -> None:
    """A document in which no sentence is found would pass all rules about sentences."""
    ends = sum(line.rstrip().endswith(".") for line in read(document).splitlines())
    assert len(sentences(document)) >= ends / 2
