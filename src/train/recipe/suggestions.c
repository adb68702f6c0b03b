/* Suggestions for misspelt keys, by the distance of words. */
#include "core/text/distance.h"
#include "train/recipe/recipe.h"

#include <string.h>

/* The largest distance for which a word is suggested. */
static int tolerance(const char *word)
{
    const size_t n = strlen(word);
    return n <= 3 ? 1 : n <= 6 ? 2 : 3;
}

/* What other tools call our keys. */
static const struct {
    const char *theirs, *ours;
} synonyms[] = {
    { "learning_rate", "lr" },
    { "batch", "batch_size" },
    { "wd", "weight_decay" },
    { "warmup", "warmup_steps" },
    { "betas", "beta1" },
    { "hidden", "sizes" },
    { "layers", "sizes" },
    { "layers", "blocks" },
    { "classes", "outputs" },
    { "num_classes", "outputs" },
    { "kernel_size", "kernel" },
    { "channels", "out" },
    { "filters", "out" },
    { "input_shape", "image" },
    { "max_grad_norm", "clip_grad_norm" },
    { "clip", "clip_grad_norm" },
    { "gradient_accumulation_steps", "accumulate" },
    { "output_dir", "dir" },
    { "num_threads", "threads" },
    { "random_seed", "seed" },
    { "pretrained", "init" },
    { "checkpoint_path", "init" },
    { "arch", "family" },
    { "std", "deviation" },
    { "max_steps", "steps" },
    { "num_epochs", "epochs" },
    { "optim", "optimizer" },
    { "num_bits", "bits" },
    { "quantization", "qat" },
    { "grad_clip", "clip_grad_norm" },
};

/* The least distance of `word` to `name` or to a synonym of it. */
static int nearness(const char *word, const char *name)
{
    int best = dt__distance(word, name);
    for (int i = 0; i < DT__COUNT_OF(synonyms); i++) {
        if (strcmp(synonyms[i].ours, name) != 0) continue;
        const int d = dt__distance(word, synonyms[i].theirs);
        if (d < best) best = d;
    }
    return best;
}

/* The only choice that begins with a word of at least three letters, or NULL. */
static const char *begun_by(const char *const *choices, const char *word)
{
    const size_t n = strlen(word);
    const char *found = NULL;
    for (; n >= 3 && *choices != NULL; choices++) {
        if (strncmp(*choices, word, n) != 0) continue;
        if (found != NULL) return NULL;
        found = *choices;
    }
    return found;
}

const char *dt_nearest(const char *const *choices, const char *word)
{
    if (choices == NULL) return NULL;
    if (word == NULL) return NULL;
    const char *const *all = choices, *best = NULL;
    int least = tolerance(word) + 1;
    for (; *choices != NULL; choices++) {
        const int d = dt__distance(word, *choices);
        if (d >= least) continue;
        least = d;
        best = *choices;
    }
    return best != NULL ? best : begun_by(all, word);
}

/* The path of a key with exactly this name below `keys`, or NULL. */
static const char *find_elsewhere(dt_recipe *r, const dt_key *keys, const char *prefix,
                                  const char *name)
{
    for (const dt_key *k = keys; k != NULL && k->name != NULL; k++) {
        const char *path = dt__recipe_join(r, prefix, k->name);
        if (nearness(name, k->name) == 0) return path;
        if (k->type == DT_KEY_LIST) path = dt__recipe_join(r, path, "N");
        if (k->keys != NULL) {
            const char *found = find_elsewhere(r, k->keys, path, name);
            if (found != NULL) return found;
        }
    }
    return NULL;
}

const char *dt__suggest_key(dt_recipe *r, const char *here, const dt_key *const *keys, int n_keys,
                            const char *name)
{
    const char *best = NULL;
    int least = tolerance(name) + 1;
    for (int i = 0; i < n_keys; i++) {
        for (const dt_key *k = keys[i]; k->name != NULL; k++) {
            const int d = nearness(name, k->name);
            if (d >= least) continue;
            least = d;
            best = k->name;
        }
    }
    if (best != NULL && least <= 1) return best;
    const bool in_model = strncmp(here, "model", strlen("model")) == 0;
    const char *elsewhere = NULL; /* preferably below this map */
    for (int i = 0; elsewhere == NULL && i < n_keys; i++) {
        elsewhere = find_elsewhere(r, keys[i], here, name);
    }
    if (elsewhere == NULL && !in_model) elsewhere = find_elsewhere(r, dt_recipe_keys, "", name);
    for (int i = 0; elsewhere == NULL && dt_family_at(i) != NULL; i++) {
        elsewhere = find_elsewhere(r, dt_family_at(i)->keys, "model", name);
    }
    if (elsewhere == NULL && in_model) elsewhere = find_elsewhere(r, dt_recipe_keys, "", name);
    const size_t n = strlen(here);
    const bool same_map = elsewhere != NULL && strncmp(elsewhere, here, n) == 0 &&
                          (n == 0 || elsewhere[n] == '.') &&
                          /* in another kind of file, or in a map of a list */
                          strchr(elsewhere + n + (n > 0), '.') == NULL;
    return elsewhere != NULL && !same_map ? elsewhere : best;
}
