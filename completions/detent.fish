# Completion of detent in fish. The program itself says what fits: `detent complete`.
function __detent_words
    set -l words (commandline -opc) (commandline -ct)
    command $words[1] complete -- $words[2..-1] 2>/dev/null
end
complete -c detent -n 'test (count (__detent_words)) -gt 0' -f -a '(__detent_words)'
complete -c detent -n 'test (count (__detent_words)) -eq 0' -F
