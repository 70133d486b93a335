/* Tensors cross as borrowed views: a DLTensor and what DLPack does not say. */
#ifndef KVPLANE_TENSOR_H_
#define KVPLANE_TENSOR_H_

#include "base.h"
#include "dlpack.h"

/* Rules for the view: strides are always written; byte_offset is honoured; alignment is checked, never assumed; shapes
 * are in PyTorch order, the last dimension the fastest. A block-quantised tensor has dtype uint8 and shape
 * [rows, bytes a row]; `format` names the blocks ("gguf.q4_1/1"), `n_columns` is the number of elements a row. */
typedef struct kvp_tensor {
    kvp_head head;
    const DLTensor* view; /* borrowed as long as the tensor */
    kvp_str format;       /* empty: view->dtype says all */
    int64_t n_columns;    /* elements a row; 0: the view's last dimension */
    uint32_t tier;        /* KVP_TIER_* where the bytes are */
    uint32_t reserved0;
    uint64_t ready_event; /* 0: valid in the order of the queue that it is used on */
    uint64_t ready_value;
} kvp_tensor;

#endif /* KVPLANE_TENSOR_H_ */
