# Completion of detent in bash. The program itself says what fits: `detent complete`.
_detent() {
    local line=${COMP_LINE:0:COMP_POINT} word prefix program=${1/#\~/$HOME}
    local -a words
    read -ra words <<< "$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    word=${words[-1]}
    mapfile -t COMPREPLY < <("$program" complete -- "${words[@]:1}" 2> /dev/null)
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[.=] ]] || compopt -o nospace 2> /dev/null
    # readline replaces what follows the last "="
    if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
        prefix=${word%"${word##*=}"}
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
}
complete -o default -F _detent detent
