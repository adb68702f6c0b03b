#!/bin/sh
# What scripts/check-packages does inside of a bare system, with the packages in /try.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8
unset CC CFLAGS LDFLAGS CMAKE_GENERATOR CMAKE_C_COMPILER_LAUNCHER # of the system around this one
cd /try
failed=0

say() { printf '%-14s %s\n' "$1" "$2"; }
wants() { # what pattern text
    if printf '%s\n' "$3" | grep -q -- "$2"; then
        say "$1" ok
    else
        say "$1" "no '$2' in:"
        printf '%s\n' "$3"
        failed=$((failed + 1))
    fi
}
apt() { apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@" > log 2>&1 < /dev/null ||
    { cat log; exit 1; }; }

# ---- from the packages to a trained model -------------------------------------------------------
start=$(date +%s)
apt update
apt install ./detent_*.deb libopenblas0
say installed "$(($(date +%s) - start)) s, $(du -sk /usr/bin/detent | cut -f1) KiB of program"
detent cp digits-2bit
detent train digits-2bit.yaml --quiet > trained
say trained "$(($(date +%s) - start)) s from apt to a converted model"
wants model 'converted' "$(cat trained)"
wants version 'libyaml' "$(detent --version --verbose)"

# ---- programs of other people -------------------------------------------------------------------
apt install ./libdetent*.deb gcc libc6-dev cmake make pkg-config
cmake -S . -B shared -DKIND=shared > log && cmake --build shared >> log || { cat log; exit 1; }
wants find_package 'works' "$(shared/outside)"
# shellcheck disable=SC2046 # a list of words
cc main.c -o outside $(pkg-config --cflags --libs detent)
wants pkg-config 'works' "$(./outside)"
wants soname 'libdetent.so.0' "$(ldd outside)"
suggested=$(dpkg-query -W -f '${Suggests}' libdetent-dev | tr -d ,)
# shellcheck disable=SC2086 # a list of words
apt install $suggested
cmake -S . -B static -DKIND=static > log && cmake --build static >> log || { cat log; exit 1; }
wants static 'works' "$(static/outside)"

# ---- the manual, completion ---------------------------------------------------------------------
apt install man-db bash-completion zsh fish
wants man 'go on with the run' "$(man detent-train 2>&1)"
wants whatis 'detent-quantize (1)' "$(mandb -q > log 2>&1; man -f detent-quantize 2>&1)"
warned=$(for page in /usr/share/man/man1/detent*; do man --warnings -l "$page" 2>&1 > /dev/null
done)
wants warnings '^none$' "${warned:-none}"
cat > complete.bash <<'END'
source /usr/share/bash-completion/bash_completion
_load_completion detent || __load_completion detent
complete_line() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _detent detent
    printf '%s:' "$1"; printf ' %s' "${COMPREPLY[@]}"; echo
}
complete_line 'detent tr'
complete_line 'detent train r.yaml train.optimizer.l'
complete_line 'detent train r.yaml train.optimizer.name='
complete_line 'detent export m --format tf'
complete_line 'detent cp digits-2'
END
bash=$(bash complete.bash 2>&1)
wants bash '^detent tr: train$' "$bash"
wants bash 'train.optimizer.l: train.optimizer.lr=' "$bash"
wants bash 'name=:.* adamw' "$bash"
wants bash 'tf: tflite$' "$bash"
wants bash '2: digits-2bit$' "$bash"
cat > complete.zsh <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
send() { zpty -w shell "$1" }
send 'PS1=; autoload -U compinit; compinit -u; zstyle ":completion:*" list-prompt ""; stty columns 200; print rea''dy'
sleep 2
for line in 'detent quan' 'detent export m --format tf' 'detent train r.yaml train.schedule.warm'; do
    zpty -n -w shell "$line"$'\t'
    sleep 1
    zpty -n -w shell $'\C-a: \C-e\n'
    sleep 1
done
while zpty -r -t shell text; do print -r -- "$text"; done
zpty -d shell
END
zsh=$(zsh -f complete.zsh 2>&1 | tr -d '\r' | cat -v)
wants zsh 'quantize' "$zsh"
wants zsh 'tflite' "$zsh"
wants zsh 'train.schedule.warmup' "$zsh"
fish=$(fish -c 'complete -C "detent qu"; complete -C "detent train r.yaml train.optimizer.l"')
wants fish 'quantize' "$fish"
wants fish 'train.optimizer.lr=' "$fish"

# ---- and gone again -----------------------------------------------------------------------------
apt purge detent libdetent-dev libdetent0
wants removed '^nothing$' "$(find / -xdev -path /try -prune -o -path /root -prune -o \
    -path /var/cache -prune -o -path /var/log -prune -o -name '*detent*' -print |
    grep . || echo nothing)"
echo "$failed failures"
[ "$failed" -eq 0 ]
