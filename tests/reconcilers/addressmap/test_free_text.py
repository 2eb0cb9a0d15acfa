"""Free text of objects, any text at all, where it is printed, drawn, served or written."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import click
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange, Capacity
from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.page import build_page
from reconcilers.addressmap.pagedata import build_page_state, build_pool_documents
from reconcilers.addressmap.svg import draw_svg
from reconcilers.addressmap.tenants import number_looks
from reconcilers.cli.cluster.drawing import draw_family
from reconcilers.cli.output import fit_table, render_json, render_yaml, wrap_line
from reconcilers.cli.tables import _ANSWERS, _POOLS, PoolRow, find_answers
from reconcilers.integrations.core.views import Views
from reconcilers.pictures.documents import build_map_document
from reconcilers.pictures.extents import AddressHolder, HeldAddresses, Reserved
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture, PoolRequest
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.spaces.offers import PoolName

WHOLE = AddressRange.parse_cidr("10.0.0.0/28")
HELD = AddressRange.parse("10.0.0.4", "10.0.0.5")
HOSTILE = ("\x1b[2J", "\n", "\r", "\x85", "\u202e", "\u2028", "</script>", "]]>", "\0", "&", '"')
characters = st.characters(exclude_categories=()) | st.sampled_from(HOSTILE)
free_texts = st.lists(characters, max_size=6).map("".join)


def picture(texts: list[str]) -> PoolPicture:
    """Return a pool that has these texts wherever an object's author chooses the text."""
    name, tenant, note, purpose, reason, offers, part = texts
    key = Key(name, name)
    holder = AddressHolder(name, key, tenant=tenant, purpose=purpose, phase=reason)
    family = PoolFamily(
        offers,
        offers,
        cidr=WHOLE,
        usable=(AddressRange.parse("10.0.0.1", "10.0.0.15"),),
        reserved=(Reserved(AddressRange.parse("10.0.0.0", "10.0.0.0"), note),),
        held_addresses=(HeldAddresses(holder, HELD),),
        compute_capacity=lambda: Capacity(
            15, 2, available=13, largest_free=10, fragmentation_percent=0
        ),
    )
    request = PoolRequest(name, key, tenant=tenant, purpose=purpose, reason=reason)
    return PoolPicture(
        *(PoolName(name, key), "example.org", [family], [request], "False", reason, part)
    )


some_texts = st.lists(free_texts, min_size=7, max_size=7)


def controls(content: str) -> list[str]:
    """Return the characters of a text that a terminal or a reader acts on, line ends aside."""
    joiners = "\u200c\u200d"
    return [
        character
        for character in content
        if character not in f"\n{joiners}"
        and (
            unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}
            or unicodedata.bidirectional(character)
            in {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
        )
    ]


@given(some_texts)
def test_tables_and_maps_have_no_controls_and_one_line_for_each_row(texts: list[str]) -> None:
    pool, plain = picture(texts), picture(["x"] * 7)

    def lines(pool_picture: PoolPicture) -> list[str]:
        rows = [PoolRow(pool_picture, pool_picture.families[0])]
        answer_list = list(find_answers([pool_picture], WHOLE))
        parts = (
            draw_family(pool_picture, pool_picture.families[0], "wide"),
            fit_table(_POOLS, rows, "wide"),
            fit_table(_ANSWERS, answer_list, "wide"),
        )
        return click.unstyle("".join(parts)).split("\n")

    assert controls("\n".join(lines(pool))) == []
    assert len(lines(pool)) == len(lines(plain))


@given(some_texts)
def test_a_picture_is_well_formed_and_a_page_keeps_its_texts_in_its_data(texts: list[str]) -> None:
    pool = picture(texts)
    objects = Objects({}, {}, clusters={}, providers={}, integrations=Views([pool]))
    image = draw_svg(pool.title, pool.families[0], number_looks(objects))
    assert controls(image) == []
    assert ElementTree.fromstring(image).tag.endswith("svg")
    html = build_page(build_page_state(objects, datetime.now(UTC), build_pool_documents(pool)))
    assert controls(html) == []
    assert html.count("</script>") == 2, "that of the data, and that of the script"
    data = html.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in data
    [pool_document] = json.loads(data)["pools"]["set"].values()
    assert len(pool_document["requests"]["set"]) == 1


@given(some_texts)
def test_documents_have_no_controls_and_keep_the_text_as_it_is_written(texts: list[str]) -> None:
    body: dict[str, Any] = build_map_document(picture(texts))
    as_text = render_json(body)
    assert controls(as_text) == []
    assert json.loads(as_text) == body
    if not any(unicodedata.category(character) == "Cs" for character in "".join(texts)):
        in_yaml = render_yaml([body])
        assert controls(in_yaml) == []
        assert yaml.safe_load(in_yaml) == body


@given(free_texts)
def test_conditions_and_sentences_are_one_line(content: str) -> None:
    message = ConditionFinding("Ready", False, reason="Stalled", message=content).message
    assert controls(message) == []
    assert "\n" not in message
    sentence = wrap_line(content)
    assert controls(sentence) == []
    assert sentence.count("\n") == 1
