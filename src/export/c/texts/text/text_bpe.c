/* Byte pair encoding: `byte` is the token of each byte; merge i makes `result[i]` of the neighbours
 * left[i] and right[i], by which merges are sorted; those with a smaller rank come first. `whole`:
 * a piece that is a token needs no merges. `ranges` are classes of characters (text_class). */
typedef struct text_bpe {
    const int32_t *byte, *left, *right, *result, *rank;
    const uint32_t *ranges;
    int32_t merges, n_ranges;
    int whole;
    int32_t digits; /* most digits of a piece, as Llama 3 and Qwen2 split; 0: as GPT-2 */
} text_bpe;
