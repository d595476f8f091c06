/**
 * The branches of an episode's message graph. Each message is a node behind the one before it, and two messages are one node where they
 * follow the same node and are the same: so a context that is compacted, a sub-agent and a second sample of one prompt each begin another
 * way. A branch is the way to an answer that no other answer continues, as in verifiers (PrimeIntellect-ai/verifiers, v1/graph.py) and
 * prime-rl, which make one training sample of each. There an answer that stands in several branches is learnt in each of them; here in
 * the first alone, so that no answer counts twice.
 */

/** A message that a call read. `hash` names it with all before it, `previous` the one before it; the first has none. */
export type GraphMessage = { readonly hash: string; readonly previous: string | null; readonly key: string };

export type GraphAnswer = {
  /** Answers of one author alone continue each other. */
  readonly author: string;
  /** The last message that its call read; null where that is not known. */
  readonly context: string | null;
  /** As that of a message which repeats it; null where only tokens are known. */
  readonly key: string | null;
  /** Ids of the tokens of prompt and answer; null unless both are known. */
  readonly tokens: { readonly prompt: ArrayLike<number>; readonly answer: ArrayLike<number> } | null;
};

export type BranchPlace = {
  /** Counted from 0 in the order of the last answers. */
  readonly branch: number;
  readonly last: boolean;
  /** How many messages stand before the answer; null where they are not known. */
  readonly messages: number | null;
};

/**
 * The branch in which each answer is learnt. An answer continues another where its call read all that the other's call read, and then
 * the other answer; tokens, where they are known, have to agree exactly, since text that was tokenised anew is not what was sampled.
 * @param messages all that the calls read; one that stands before another need not come first
 * @param answers in the order of rows
 */
export function branchesOf(messages: readonly GraphMessage[], answers: readonly GraphAnswer[]): readonly BranchPlace[] {
  const graph = graphOf(messages);
  const at = answers.map(({ context }) => (context === null ? null : graph.nodeOf(context)));
  const standingAt = new Map<number, number[]>();
  for (const [i, { key }] of answers.entries()) {
    if (at[i] === null || key === null) continue;
    const node = graph.after(at[i]!, key);
    standingAt.set(node, [...(standingAt.get(node) ?? []), i]);
  }
  const before = answers.map((answer, i) => {
    const fits = (other: number): boolean =>
      other !== i && answers[other]!.author === answer.author && tokensContinue(answers[other]!, answer);
    if (at[i] === null) return longest(answers, i, fits);
    for (let node: number | null = at[i]!; node !== null; node = graph.before(node)) {
      const found = standingAt.get(node)?.find(fits);
      if (found !== undefined) return found;
    }
    return null;
  });
  const continued = new Set(before);
  const branch = new Array<number>(answers.length).fill(-1);
  let branches = 0;
  for (const i of answers.keys()) {
    if (continued.has(i)) continue;
    for (let step: number | null = i; step !== null && branch[step] === -1; step = before[step]!)
      branch[step] = branches;
    branches++;
  }
  return answers.map((_, i) => ({
    branch: branch[i]!,
    last: !continued.has(i),
    messages: at[i] === null ? null : graph.depth(at[i]!),
  }));
}

/** Nodes are numbers; 0 stands before the first message. */
function graphOf(messages: readonly GraphMessage[]) {
  const byHash = new Map(messages.map((message) => [message.hash, message]));
  const nodes = new Map<string, number>();
  const parents: (number | null)[] = [null];
  const depths = [0];
  const known = new Map<string, number>();
  const after = (node: number, key: string): number => {
    const name = `${node} ${key}`;
    const found = nodes.get(name);
    if (found !== undefined) return found;
    parents.push(node);
    depths.push(depths[node]! + 1);
    nodes.set(name, depths.length - 1);
    return depths.length - 1;
  };
  return {
    after,
    before: (node: number): number | null => parents[node]!,
    depth: (node: number): number => depths[node]!,
    /** The node of a message by its hash; a hash that no message has names an empty context. */
    nodeOf(hash: string): number {
      const way: GraphMessage[] = [];
      for (let link = byHash.get(hash); link && !known.has(link.hash); ) {
        way.push(link);
        link = link.previous === null ? undefined : byHash.get(link.previous);
      }
      for (const { hash, previous, key } of way.reverse())
        known.set(hash, after(previous === null ? 0 : (known.get(previous) ?? 0), key));
      return known.get(hash) ?? 0;
    },
  };
}

/** Of answers without known messages: the one whose tokens are the longest beginning. */
function longest(answers: readonly GraphAnswer[], i: number, fits: (other: number) => boolean): number | null {
  let best: number | null = null;
  const length = ({ tokens }: GraphAnswer): number =>
    tokens === null ? 0 : tokens.prompt.length + tokens.answer.length;
  for (const [other, answer] of answers.entries()) {
    if (answer.context !== null || answer.tokens === null || answers[i]!.tokens === null || !fits(other)) continue;
    if (best === null || length(answer) > length(answers[best]!)) best = other;
  }
  return best;
}

/** Do the tokens of the second begin with all of the first, or are both unknown? */
function tokensContinue({ tokens: first }: GraphAnswer, { tokens: second }: GraphAnswer): boolean {
  if (first === null || second === null) return first === second;
  const { prompt, answer } = first;
  if (second.prompt.length < prompt.length + answer.length) return false;
  for (let i = 0; i < prompt.length; i++) if (second.prompt[i] !== prompt[i]) return false;
  for (let i = 0; i < answer.length; i++) if (second.prompt[prompt.length + i] !== answer[i]) return false;
  return true;
}
