// Answers into a struct of the caller's, who may know fewer members than this plugin.
#pragma once

#include <kvplane/base.h>

#include <algorithm>
#include <cstring>

template <class Struct>
void fill(Struct* out, const Struct& answer) {
    const kvp_head head = out->head;
    std::memcpy(out, &answer, std::min<size_t>(head.struct_size, sizeof(Struct)));
    out->head = head;
}
