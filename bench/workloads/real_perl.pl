# A perl program as log and text tools are: hashes of hashes, strings that grow, regular expressions, sorts. Its argument
# is how much of it to do. It drops nine tenths of its records, says "done", and waits for its input to end.
use strict;
use warnings;

my $scale = shift // 1;
my ($state, %people, @lines) = (12345);

# Not rand(): everyone must do the same work.
sub number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }

my @words = map { my $n = $_; join '', map { chr(97 + ($n * 7 + $_ * $_ * 11) % 26) } 1 .. 3 + $n % 9 } 1 .. 5000;

for my $id (1 .. int(60_000 * $scale)) {
	my $line = join ' ', map { $words[number(5000)] } 1 .. 4 + number(20);
	$people{"user$id"} = {name => "$words[number(5000)] $words[number(5000)]", lines => [$line], seen => {}};
	push @lines, "$id: $line";
}
my $digits = 0;
for (@lines) {
	my ($id, $text) = /^(\d+): (.*)$/ or next;
	my $person = $people{"user$id"};
	$person->{seen}{$_}++ for split ' ', $text;
	$digits++ while $text =~ /([aeiou])[^aeiou\s]+\1/g;
	(my $changed = $text) =~ s/(\w+)/\u$1/g;
	push @{$person->{lines}}, $changed if length $changed > 60;
}
my %count;
for my $person (values %people) { $count{$_} += $person->{seen}{$_} for keys %{$person->{seen}}; }
my @order = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my @sorted = sort { $people{$a}{name} cmp $people{$b}{name} } keys %people;
my $joined = join "\n", map { join "\t", $_, $people{$_}{name}, @{$people{$_}{lines}} } @sorted;
@lines = ();
$joined = undef;
delete @people{grep { !/0$/ } keys %people};
@sorted = ();
$| = 1;
print "done\n";
1 while <STDIN>;
