#include "op.h"

namespace kvplane::cpu {

const Operation* find_operation(std::string_view id) {
    static const Operation* const all[] = {
        &kEmbed,           &kRmsNorm,     &kLinear,     &kSwiglu,           &kRope,         &kKvWrite,
        &kAttentionInput,  &kFeedForward, &kAttention,  &kColumnStatistics, &kPartialIndex, &kPartialKeys,
        &kPartialScores,   &kSelectRows,  &kPageMeans,  &kPageBias,         &kSelectPages,  &kPageBounds,
        &kPageBoundScores, &kTurnedRows,  &kColumnSums, &kPoolScores,
    };
    for (const Operation* operation : all) {
        if (operation->id == id) return operation;
    }
    return nullptr;
}

}  // namespace kvplane::cpu
