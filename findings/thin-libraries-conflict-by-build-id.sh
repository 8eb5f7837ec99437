#!/usr/bin/env bash
# rpm 4.18.0 (Debian 12), on librocrand1 5.3.3-4 (Debian 12): a fat library for 7 GPUs.
# Expected: packages with the same library for one GPU each, in directories of their own, install side by side, as any two packages without a
# file in common do.
# Seen: rpmbuild adds a link for the build ID of each library that can be executed, /usr/lib/.build-id/09/20e3…, to each package. A library that
# lost code for some GPUs after it was linked has the build ID of the fat one, whatever is left in it. So two such packages have one path in common
# with two targets, and rpm refuses them. Libraries of other builds do not conflict, nor do packages that are built with _build_id_links none.
. "$(dirname "$0")/common.sh"
recorded <<'END'
for gfx803 alone: 1 installed, no conflict
for gfx803 and for gfx1030: 0 installed, conflicts between attempted installs
for gfx803 and for gfx1030, with _build_id_links none: 2 installed, no conflict
END
debs rpm=4.18.0+dfsg-1+deb12u1 rpm-common=4.18.0+dfsg-1+deb12u1 librpm9=4.18.0+dfsg-1+deb12u1 librpmbuild9=4.18.0+dfsg-1+deb12u1 \
    librpmio9=4.18.0+dfsg-1+deb12u1 librpmsign9=4.18.0+dfsg-1+deb12u1 librocrand1=5.3.3-4
export RPM_CONFIGDIR=$work/root/usr/lib/rpm
for gpu in gfx803 gfx1030; do
    mkdir -p "$work/tree/$gpu"
    python3 - "$work/root/usr/lib/x86_64-linux-gnu/librocrand.so.1.1" $gpu "$work/tree/$gpu/librocrand.so.1.1" <<'END'
import sys

import comgr

library, gpu, thin = sys.argv[1:]
with open(library, "rb") as file:
    content = file.read()
for bundle in comgr.bundles(content):
    for name, code in bundle:
        if code and not name.endswith(gpu):
            content = content.replace(code, bytes(len(code)))
with open(thin, "wb") as file:
    file.write(content)
END
    chmod +x "$work/tree/$gpu/librocrand.so.1.1"
done
build() { # NAME GPU OPTION…: a package with the library for this GPU
    cat >"$work/spec" <<END
Name: $1
Version: 1
Release: 1
Summary: a library
License: MIT
AutoReqProv: no
%description
A library.
%install
mkdir -p %{buildroot}/usr/lib
cp -r $work/tree/$2 %{buildroot}/usr/lib
%files
/usr/lib/$2
END
    "$work/root/usr/bin/rpmbuild" --quiet -bb --define "_topdir $work/rpm" --define "_rpmconfigdir $RPM_CONFIGDIR" --define "__os_install_post %{nil}" \
        --define "debug_package %{nil}" --define "_binary_payload w1.gzdio" "${@:3}" "$work/spec" >&2
}
install() { # WHAT NAME…: installs the packages in a new root
    local what=$1 packages=() name code=0
    shift
    rm -rf "$work/new"
    mkdir "$work/new"
    for name; do packages+=("$work/rpm/RPMS/x86_64/$name-1-1.x86_64.rpm"); done
    "$work/root/usr/bin/rpm" --root "$work/new" --dbpath /rpm --force-debian --nodeps --nosignature -i "${packages[@]}" 2>"$work/error" >&2 || code=$?
    cat "$work/error" >&2
    conflict=$(grep -o 'conflicts between attempted installs' "$work/error" || echo "no conflict")
    echo "$what: $(find "$work/new" -name 'librocrand*' | wc -l) installed, $conflict"
}
build rocrand-gfx803 gfx803
build rocrand-gfx1030 gfx1030
build rocrand-gfx803-none gfx803 --define "_build_id_links none"
build rocrand-gfx1030-none gfx1030 --define "_build_id_links none"
{
    install "for gfx803 alone" rocrand-gfx803
    install "for gfx803 and for gfx1030" rocrand-gfx803 rocrand-gfx1030
    install "for gfx803 and for gfx1030, with _build_id_links none" rocrand-gfx803-none rocrand-gfx1030-none
} >"$work/out"
compare "$work/out"
