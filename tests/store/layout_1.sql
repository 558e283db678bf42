-- Made by the code of layout 1 and pg_dump --inserts, without its settings.
CREATE TABLE public.accounts (
    uuid character varying(36) NOT NULL,
    name character varying(255) NOT NULL
);
CREATE TABLE public.authorization_identifiers (
    "authorization" character varying(36) NOT NULL,
    identifier character varying(8) NOT NULL
);
CREATE TABLE public.authorizations (
    uuid character varying(36) NOT NULL,
    account character varying(36) NOT NULL,
    domain character varying(255) NOT NULL,
    role character varying(32) NOT NULL
);
CREATE TABLE public.penstock_store (
    id integer NOT NULL,
    version integer NOT NULL,
    token_key bytea NOT NULL
);
CREATE SEQUENCE public.penstock_store_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.penstock_store_id_seq OWNED BY public.penstock_store.id;
CREATE TABLE public.session_logs (
    id character varying(36) NOT NULL,
    account character varying(36) NOT NULL,
    domain character varying(255) NOT NULL,
    type character varying(16) NOT NULL,
    protocol character varying(32) NOT NULL,
    identifiers character varying NOT NULL,
    created bigint NOT NULL,
    connected bigint,
    ended bigint NOT NULL,
    end_reason character varying(32) NOT NULL
);
CREATE TABLE public.tlcs (
    uuid character varying(36) NOT NULL,
    domain character varying(255) NOT NULL,
    identifier character varying(8) NOT NULL,
    type character varying(16) NOT NULL,
    account character varying(36) NOT NULL
);
CREATE TABLE public.tokens (
    uuid character varying(36) NOT NULL,
    "authorization" character varying(36) NOT NULL,
    digest bytea NOT NULL,
    created bigint NOT NULL,
    revoked bigint
);
ALTER TABLE ONLY public.penstock_store ALTER COLUMN id SET DEFAULT nextval('public.penstock_store_id_seq'::regclass);
INSERT INTO public.accounts VALUES ('60108a97-2c75-4035-aa3d-946841e3ed09', 'City of Delft');
INSERT INTO public.authorization_identifiers VALUES ('596d7225-6bfd-42d3-bcdc-906677ada435', 'NLZH0001');
INSERT INTO public.authorizations VALUES ('596d7225-6bfd-42d3-bcdc-906677ada435', '60108a97-2c75-4035-aa3d-946841e3ed09', 'test', 'TLC_ADMIN');
INSERT INTO public.penstock_store VALUES (1, 1, '\xe3f7167899a8c28f0a676f6fd39949b0822bcb20a44204f91200711bcadfdd75');
INSERT INTO public.session_logs VALUES ('s1', '60108a97-2c75-4035-aa3d-946841e3ed09', 'test', 'TLC', 'TCPStreaming_Singleplex', '["NLZH0001"]', 1700000000000, NULL, 1700000001000, 'TIMEOUT');
INSERT INTO public.tlcs VALUES ('d7cf703d-7630-4165-9549-7dcbd9c5d534', 'test', 'NLZH0001', 'VLOG', '60108a97-2c75-4035-aa3d-946841e3ed09');
INSERT INTO public.tokens VALUES ('e4b4ec42-1de5-403e-9248-4c8012dce276', '596d7225-6bfd-42d3-bcdc-906677ada435', '\xbe7551a358f47b18e6fcacb460f8c87d8423aa8583f28a9025dc559785495817', 1700000000000, NULL);
SELECT pg_catalog.setval('public.penstock_store_id_seq', 1, false);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_name_key UNIQUE (name);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.authorization_identifiers
    ADD CONSTRAINT authorization_identifiers_pkey PRIMARY KEY ("authorization", identifier);
ALTER TABLE ONLY public.authorizations
    ADD CONSTRAINT authorizations_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.penstock_store
    ADD CONSTRAINT penstock_store_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.session_logs
    ADD CONSTRAINT session_logs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tlcs
    ADD CONSTRAINT tlcs_domain_identifier_key UNIQUE (domain, identifier);
ALTER TABLE ONLY public.tlcs
    ADD CONSTRAINT tlcs_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (uuid);
CREATE INDEX ix_authorizations_account ON public.authorizations USING btree (account);
CREATE INDEX ix_session_logs_account ON public.session_logs USING btree (account);
CREATE INDEX ix_session_logs_created ON public.session_logs USING btree (created);
CREATE INDEX ix_session_logs_ended ON public.session_logs USING btree (ended);
CREATE INDEX ix_tokens_authorization ON public.tokens USING btree ("authorization");
ALTER TABLE ONLY public.authorization_identifiers
    ADD CONSTRAINT authorization_identifiers_authorization_fkey FOREIGN KEY ("authorization") REFERENCES public.authorizations(uuid) ON DELETE CASCADE;
ALTER TABLE ONLY public.authorizations
    ADD CONSTRAINT authorizations_account_fkey FOREIGN KEY (account) REFERENCES public.accounts(uuid) ON DELETE CASCADE;
ALTER TABLE ONLY public.tlcs
    ADD CONSTRAINT tlcs_account_fkey FOREIGN KEY (account) REFERENCES public.accounts(uuid);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_authorization_fkey FOREIGN KEY ("authorization") REFERENCES public.authorizations(uuid) ON DELETE CASCADE;
