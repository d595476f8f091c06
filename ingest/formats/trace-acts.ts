/** Each act as its events, whatever format it came from. */
import type { Draft } from '../events.ts';
import { given, without } from './native.ts';
import type { Act } from './trace.ts';
import { generationDrafts, toolDrafts } from './trace-calls.ts';
import type { TraceTree } from './trace-tree.ts';
import { type Speak, seqOf } from './trace-voice.ts';

export function actDrafts(speak: Speak, act: Act, tree: TraceTree): Draft[] {
  const { what, trace, id, start, end, revision } = act;
  const agent = tree.agentOf(act);
  const saysError =
    what.kind === 'tool' ||
    (what.kind === 'generation' && tree.isLeaf(act)) ||
    (what.kind === 'agent' && typeof act.error === 'string');
  const unsaid = act.error === undefined || saysError ? {} : { error: act.error };
  const kept = {
    native: {
      format: act.format,
      ids: { trace_id: trace, span_id: id },
      ...(act.name === '' ? {} : { name: act.name }),
    },
    ...given('unmapped', without({ ...act.unmapped, ...unsaid, ...(act.native ? { otlp: act.native } : {}) })),
    ...(act.flags?.length ? { flags: [...act.flags] } : {}),
  };
  const here = {
    episode_id: trace,
    ...seqOf(start ?? end),
    ...(act.parent ? { parent_id: act.parent } : {}),
  };
  const full = { revision, full: agent !== null };
  switch (what.kind) {
    case 'generation':
      return tree.isLeaf(act)
        ? generationDrafts(speak, act, agent, tree, kept)
        : [observed(speak, act, here, kept, 'span')];
    case 'tool':
      return toolDrafts(speak, act, agent, tree, kept);
    case 'agent': {
      if (act.agent == null) return [observed(speak, act, here, kept, 'span')];
      const changed = { ...here, agent_id: act.agent };
      const parentAgent = tree.parentAgentOf(act);
      return [
        speak(
          'agent.defined',
          [trace, id],
          {
            episode_id: trace,
            agent_id: act.agent,
            name: act.agent,
            ...(parentAgent === null ? {} : { parent_agent_id: parentAgent }),
            ...given('model', what.model),
            ...given('system_instructions', what.instructions),
            ...given('tools', what.tools),
            ...given('unmapped', what.description),
          },
          start ?? end,
          { revision, full: act.parent === null || parentAgent !== null },
        ),
        speak('agent.changed', [trace, id, 0], { ...changed, state: 'started', ...kept }, start, { revision }),
        ...(end === null
          ? []
          : [
              speak(
                'agent.changed',
                [trace, id, 1],
                {
                  ...changed,
                  ...seqOf(end),
                  state: act.error === undefined ? 'stopped' : 'errored',
                  ...(typeof act.error === 'string' && act.error !== '' ? { reason: act.error } : {}),
                },
                end,
                { revision },
              ),
            ]),
      ];
    }
    case 'handoff':
      return [
        speak(
          'control.transferred',
          [trace, id],
          {
            ...here,
            ...given('from_agent', what.from ?? agent ?? undefined),
            to_agent: what.to,
            kind: 'handoff',
            ...kept,
          },
          start,
          full,
        ),
      ];
    case 'decision':
      return [
        speak(
          'decision.made',
          [trace, id],
          { ...here, ...given('by', agent ?? undefined), kind: what.decided, decision: what.decision, ...kept },
          end ?? start,
          full,
        ),
      ];
    case 'observation':
      return [
        speak(
          'environment.observed',
          [trace, id],
          { ...here, kind: what.seen, ...given('content', what.content), ...kept },
          start ?? end,
          { revision },
        ),
      ];
    case 'wrapper':
      return [observed(speak, act, here, kept, 'span')];
    case 'episode':
      return kept.unmapped ? [observed(speak, act, here, kept, 'trace')] : [];
  }
}

/** A span that stands around others: kept, so that nothing of it is lost, and counted as nothing. */
const observed = (
  speak: Speak,
  act: Act,
  here: { readonly episode_id: string },
  kept: Record<string, unknown>,
  kind: string,
): Draft =>
  speak(
    'environment.observed',
    [act.trace, act.id],
    { ...here, kind, content: { name: act.name }, ...kept },
    act.start ?? act.end,
    { revision: act.revision },
  );
