--
-- PostgreSQL database dump
--

\restrict 7o7iotdBb43tYbheF293kmieuAn9yCCzNpMZMHhc0GzALbcj67kyeqoEqe1Ulm6

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    uuid character varying(36) NOT NULL,
    name character varying(255) NOT NULL
);


--
-- Name: authorization_identifiers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.authorization_identifiers (
    "authorization" character varying(36) NOT NULL,
    identifier character varying(8) NOT NULL
);


--
-- Name: authorizations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.authorizations (
    uuid character varying(36) NOT NULL,
    account character varying(36) NOT NULL,
    domain character varying(255) NOT NULL,
    role character varying(32) NOT NULL
);


--
-- Name: penstock_store; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.penstock_store (
    id integer NOT NULL,
    version integer NOT NULL,
    token_key bytea NOT NULL
);


--
-- Name: penstock_store_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.penstock_store_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: penstock_store_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.penstock_store_id_seq OWNED BY public.penstock_store.id;


--
-- Name: session_logs; Type: TABLE; Schema: public; Owner: -
--

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


--
-- Name: tlcs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tlcs (
    uuid character varying(36) NOT NULL,
    domain character varying(255) NOT NULL,
    identifier character varying(8) NOT NULL,
    type character varying(16) NOT NULL,
    account character varying(36) NOT NULL
);


--
-- Name: tokens; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tokens (
    uuid character varying(36) NOT NULL,
    "authorization" character varying(36) NOT NULL,
    digest bytea NOT NULL,
    created bigint NOT NULL,
    revoked bigint
);


--
-- Name: penstock_store id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.penstock_store ALTER COLUMN id SET DEFAULT nextval('public.penstock_store_id_seq'::regclass);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('60108a97-2c75-4035-aa3d-946841e3ed09', 'City of Delft');


--
-- Data for Name: authorization_identifiers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.authorization_identifiers VALUES ('596d7225-6bfd-42d3-bcdc-906677ada435', 'NLZH0001');


--
-- Data for Name: authorizations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.authorizations VALUES ('596d7225-6bfd-42d3-bcdc-906677ada435', '60108a97-2c75-4035-aa3d-946841e3ed09', 'test', 'TLC_ADMIN');


--
-- Data for Name: penstock_store; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.penstock_store VALUES (1, 1, '\xe3f7167899a8c28f0a676f6fd39949b0822bcb20a44204f91200711bcadfdd75');


--
-- Data for Name: session_logs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.session_logs VALUES ('s1', '60108a97-2c75-4035-aa3d-946841e3ed09', 'test', 'TLC', 'TCPStreaming_Singleplex', '["NLZH0001"]', 1700000000000, NULL, 1700000001000, 'TIMEOUT');


--
-- Data for Name: tlcs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tlcs VALUES ('d7cf703d-7630-4165-9549-7dcbd9c5d534', 'test', 'NLZH0001', 'VLOG', '60108a97-2c75-4035-aa3d-946841e3ed09');


--
-- Data for Name: tokens; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tokens VALUES ('e4b4ec42-1de5-403e-9248-4c8012dce276', '596d7225-6bfd-42d3-bcdc-906677ada435', '\xbe7551a358f47b18e6fcacb460f8c87d8423aa8583f28a9025dc559785495817', 1700000000000, NULL);


--
-- Name: penstock_store_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.penstock_store_id_seq', 1, false);


--
-- Name: accounts accounts_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_name_key UNIQUE (name);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (uuid);


--
-- Name: authorization_identifiers authorization_identifiers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.authorization_identifiers
    ADD CONSTRAINT authorization_identifiers_pkey PRIMARY KEY ("authorization", identifier);


--
-- Name: authorizations authorizations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.authorizations
    ADD CONSTRAINT authorizations_pkey PRIMARY KEY (uuid);


--
-- Name: penstock_store penstock_store_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.penstock_store
    ADD CONSTRAINT penstock_store_pkey PRIMARY KEY (id);


--
-- Name: session_logs session_logs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_logs
    ADD CONSTRAINT session_logs_pkey PRIMARY KEY (id);


--
-- Name: tlcs tlcs_domain_identifier_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tlcs
    ADD CONSTRAINT tlcs_domain_identifier_key UNIQUE (domain, identifier);


--
-- Name: tlcs tlcs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tlcs
    ADD CONSTRAINT tlcs_pkey PRIMARY KEY (uuid);


--
-- Name: tokens tokens_digest_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_digest_key UNIQUE (digest);


--
-- Name: tokens tokens_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (uuid);


--
-- Name: ix_authorizations_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_authorizations_account ON public.authorizations USING btree (account);


--
-- Name: ix_session_logs_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_session_logs_account ON public.session_logs USING btree (account);


--
-- Name: ix_session_logs_created; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_session_logs_created ON public.session_logs USING btree (created);


--
-- Name: ix_session_logs_ended; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_session_logs_ended ON public.session_logs USING btree (ended);


--
-- Name: ix_tokens_authorization; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tokens_authorization ON public.tokens USING btree ("authorization");


--
-- Name: authorization_identifiers authorization_identifiers_authorization_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.authorization_identifiers
    ADD CONSTRAINT authorization_identifiers_authorization_fkey FOREIGN KEY ("authorization") REFERENCES public.authorizations(uuid) ON DELETE CASCADE;


--
-- Name: authorizations authorizations_account_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.authorizations
    ADD CONSTRAINT authorizations_account_fkey FOREIGN KEY (account) REFERENCES public.accounts(uuid) ON DELETE CASCADE;


--
-- Name: tlcs tlcs_account_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tlcs
    ADD CONSTRAINT tlcs_account_fkey FOREIGN KEY (account) REFERENCES public.accounts(uuid);


--
-- Name: tokens tokens_authorization_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_authorization_fkey FOREIGN KEY ("authorization") REFERENCES public.authorizations(uuid) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--

\unrestrict 7o7iotdBb43tYbheF293kmieuAn9yCCzNpMZMHhc0GzALbcj67kyeqoEqe1Ulm6

