# fish completion of defib. The program itself lists the possible words, from its own tables and
# the names in the configuration; it connects to no database.

function __defib_next
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer (command $words[1] completion words -- $words[2..-1] "$current" 2>/dev/null)
    switch "$answer[1]"
        case :files
            __fish_complete_path "$current"
        case :directories
            __fish_complete_directories "$current"
        case '*'
            printf '%s\n' $answer
    end
end

complete -c defib -f -a '(__defib_next)'
