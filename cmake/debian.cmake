# debian.cmake - What Debian's policy wants of the files of a package; run by cpack before it packs them.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(documents ${share}/doc/sluice)
file(COPY_FILE ${SLUICE_CHANGES} ${documents}/CHANGELOG.md)
file(TIMESTAMP ${SLUICE_CHANGES} date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${documents}/changelog "sluice (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
     "  * CHANGELOG.md lists the changes.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
file(MAKE_DIRECTORY ${share}/zsh/vendor-completions)
file(RENAME ${share}/zsh/site-functions/_sluice ${share}/zsh/vendor-completions/_sluice)
file(REMOVE_RECURSE ${share}/zsh/site-functions)
execute_process(COMMAND gzip -9n ${documents}/changelog ${documents}/CHANGELOG.md ${share}/man/man1/sluice.1 COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE files ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/lib/*.so.* ${share}/* )
file(CHMOD ${files} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
