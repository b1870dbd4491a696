# bash completion of defib. The program itself lists the possible words, from its own tables and
# the names in the configuration; it connects to no database.

_defib() {
	local words=() answer=() word raw=${COMP_WORDS[COMP_CWORD]} i
	# bash splits at = and :, which belong to a word here.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((${#words[@]})) && [[ $word == [=:]* || ${words[-1]} == *[=:] ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
	done
	COMPREPLY=()
	mapfile -t answer < <("${COMP_WORDS[0]/#\~/$HOME}" completion words -- "${words[@]}" \
		2>/dev/null)
	case ${answer[0]-} in
	:files)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$raw")
		return
		;;
	:directories)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$raw")
		return
		;;
	esac
	# Only what stands behind the last = or : is replaced.
	local before=${words[-1]}
	[[ $raw == [=:] ]] || before=${before%"$raw"}
	for word in "${answer[@]}"; do
		word=${word%%$'\t'*}
		[[ $word != *[=/] ]] || compopt -o nospace 2>/dev/null
		COMPREPLY+=("${word#"$before"}")
	done
}

complete -F _defib defib
