#!/usr/bin/env python3
"""Writes unicode_tables.h: sorted ranges of the letters and numbers of Unicode.

Usage: unicode_tables.py > unicode_tables.h, then clang-format -i unicode_tables.h

The package unicodedata2 (16.0.0) fixes the version of Unicode: it is the one that the `tokenizers` package of 2025/26
splits by, so that both agree on every code point.
"""
import sys

import unicodedata2


def ranges(general_category):
    """[first, last] of each run of code points whose general category starts with the given letter."""
    runs = []
    for code in range(sys.maxunicode + 1):
        if unicodedata2.category(chr(code))[0] != general_category:
            continue
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return runs


def table(name, general_category):
    runs = ranges(general_category)
    rows = ", ".join(f"{{0x{first:x}, 0x{last:x}}}" for first, last in runs)
    return f"inline constexpr UnicodeRange {name}[] = {{{rows}}};\n"


print(f"""\
// Made by unicode_tables.py from Unicode {unicodedata2.unidata_version}; do not edit.
#pragma once

#include <cstdint>

namespace kvplane {{

struct UnicodeRange {{
    uint32_t first, last;
}};

// \\p{{L}}
{table("letter_ranges", "L")}
// \\p{{N}}
{table("number_ranges", "N")}
}}  // namespace kvplane""")
