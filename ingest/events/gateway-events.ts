/** How the events of the gateway are named: it writes them, and calls are looked up by these names to be recalled or replayed. */
import type { EventName } from './events.ts';

/** The source of the gateway's events: only it keeps what was sent and answered as a whole. */
export const GATEWAY = '/gateway';

/** The id of an event of a call: `CALL/requested`. It stands in each row that the event writes. */
export const gatewayEventId = (callId: string, name: EventName): string =>
  `${callId}/${name.slice(name.indexOf('.') + 1)}`;

/** The ids of a call's request and response, also as the gateway of early 0.1.0 wrote them: `CALL/generation.requested`. */
export const idsOfCall = (callId: string): string[] =>
  (['generation.requested', 'generation.completed'] as const).flatMap((name) => [
    gatewayEventId(callId, name),
    `${callId}/${name}`,
  ]);
